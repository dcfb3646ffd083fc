import { number } from '../language/texts'

/** Formats a number for people, with this number of decimals. */
export function fixed(n: number, digits: number): string {
  return number(Number(n.toFixed(digits)), { minimumFractionDigits: digits, useGrouping: false })
}

/** Formats a number of bytes for people. */
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`
  const units = ['kB', 'MB', 'GB', 'TB']
  let unit = 0
  for (n /= 1000; n >= 1000 && unit < units.length - 1; n /= 1000) unit++
  return `${fixed(n, n < 10 ? 1 : 0)} ${units[unit]}`
}
