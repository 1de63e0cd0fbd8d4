"""What every other package stands on: checks of parameters, numbers, files, identities, progress and saved states."""
