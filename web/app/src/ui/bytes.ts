/** Formats a number of bytes for people. */
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`
  const units = ['kB', 'MB', 'GB', 'TB']
  let unit = 0
  for (n /= 1000; n >= 1000 && unit < units.length - 1; n /= 1000) unit++
  return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`
}
