"""What people look at: reports, pictures and statements."""
