/* What an attacker can learn at most: true positives against false positives at (epsilon, delta). */

/** The most true positives at a share of false positives, for any test of whether an example took part. */
export function truePositives(falsePositives, epsilon, delta) {
  const tight = 1 - Math.exp(-epsilon) * (1 - delta - falsePositives);
  return Math.min(1, Math.exp(epsilon) * falsePositives + delta, Math.max(tight, 0));
}

export function curve(epsilon, delta, least = 1e-4, points = 121) {
  const shares = Array.from({ length: points }, (_, place) => least ** (1 - place / (points - 1)));
  return { shares, bound: shares.map((share) => truePositives(share, epsilon, delta)) };
}
