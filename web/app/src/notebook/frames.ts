/** Draws changes once per animation frame; in a hidden page every 100 ms. */
const due = new Set<() => void>()
let waiters: (() => void)[] = []
let planned = false

function plan(): void {
  if (planned) return
  planned = true
  let timer: ReturnType<typeof setTimeout> | undefined
  const frame = document.hidden ? 0 : requestAnimationFrame(() => run())
  const run = () => {
    clearTimeout(timer)
    cancelAnimationFrame(frame)
    planned = false
    const all = [...due]
    due.clear()
    for (const f of all) f()
    const told = waiters
    waiters = []
    for (const w of told) w()
  }
  // A page may become hidden before its animation frame.
  timer = setTimeout(run, 100)
}

export function draw(f: () => void): void {
  due.add(f)
  plan()
}

/** Resolves when the requested changes are drawn. */
export function drawn(): Promise<void> {
  return new Promise((resolve) => {
    waiters.push(resolve)
    plan()
  })
}
