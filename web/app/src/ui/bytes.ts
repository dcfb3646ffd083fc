/** Formats a number of bytes for people. */
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`
  for (const unit of ['kB', 'MB', 'GB']) {
    n /= 1000
    if (n < 1000) return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${unit}`
  }
  return `${Math.round(n)} TB`
}
