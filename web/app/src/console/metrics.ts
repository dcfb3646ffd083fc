/** One value of a metric. */
export interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}

/** Reads the text format of Prometheus. Lines that are no samples are left out. */
export function readMetrics(text: string): Sample[] {
  const out: Sample[] = []
  for (const line of text.split('\n')) {
    const found = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line)
    if (!found) continue
    const labels: Record<string, string> = {}
    for (const [, key, value] of (found[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[key!] = value!.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c))
    }
    out.push({ name: found[1]!, labels, value: Number(found[3]) })
  }
  return out
}

/** Sums the values of a metric under each value of a label. Without the label it is ''. */
export function sumBy(samples: Sample[], name: string, label: string): Map<string, number> {
  const out = new Map<string, number>()
  for (const s of samples) {
    if (s.name !== name) continue
    const key = s.labels[label] ?? ''
    out.set(key, (out.get(key) ?? 0) + s.value)
  }
  return out
}
