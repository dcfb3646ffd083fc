import { drawn } from './frames'
import type { OutputView } from './output'

/** The number of characters that are drawn for each frame. */
const slice = 64 << 10
/** The distance in characters from the end beyond which text is skipped. */
const behind = 4 << 20
/** The distance in characters from the end at which drawing continues. */
const before = 256 << 10
/** An output other than text counts as this number of characters. */
const other = 4 << 10
/** The number of other outputs that wait before the page stops reading. */
const maxWaiting = 200

type Item =
  | { out: OutputView; text: string; err: boolean }
  | { out: OutputView; skipped: number }
  | { out: OutputView; run: () => void; always?: boolean }

/**
 * The output of a kernel on its way to the page. A page draws slower than a program prints, and
 * reads on meanwhile, so that it knows the state of the kernel. Text that is too far behind is
 * skipped, and nothing else.
 */
export class Flow {
  #items: Item[] = []
  #at = 0 // the first item that waits
  #chars = 0 // of the text that waits
  #waiting = 0 // other items that wait
  #now = 0 // characters since the last frame
  #going = false
  #room: (() => void)[] = []

  text(out: OutputView, text: string, err: boolean): void {
    this.#add({ out, text, err })
    if (this.#chars > behind) this.#skip()
  }

  /** Runs f after the output before it was drawn; unless always, not if that is forgotten. */
  then(out: OutputView, run: () => void, always = false): void {
    this.#add({ out, run, always })
  }

  /** Drops the items that wait for an output, because the cell runs again. */
  forget(out: OutputView): void {
    this.#items = this.#items.slice(this.#at).filter((i) => i.out !== out || ('run' in i && i.always))
    this.#at = 0
    this.#count()
  }

  /** Resolves when more can be added. */
  async room(): Promise<void> {
    if (this.#waiting > maxWaiting) await new Promise<void>((resolve) => this.#room.push(resolve))
  }

  #add(i: Item): void {
    // A small output is drawn at once.
    if (this.#at === this.#items.length && this.#now < slice) this.#apply(i)
    else {
      this.#items.push(i)
      if ('text' in i) this.#chars += i.text.length
      else this.#waiting++
    }
    if (this.#now > 0 || this.#at < this.#items.length) void this.#go()
  }

  #apply(i: Item): void {
    if ('text' in i) {
      i.out.settle()
      i.out.text(i.text, i.err)
      this.#now += i.text.length
    } else if ('run' in i) {
      i.run()
      this.#now += other
    } else i.out.skip(i.skipped)
  }

  async #go(): Promise<void> {
    if (this.#going) return
    this.#going = true
    let before = performance.now()
    do {
      await drawn()
      // The browser takes turns: it draws a frame, and then reads for as long as that took. So
      // reading is not slower than drawing, and the text that is too far behind is found.
      const took = performance.now() - before
      if (this.#chars > slice && took > 30) await new Promise((resolve) => setTimeout(resolve, Math.min(3 * took, 500)))
      before = performance.now()
      this.#now = 0
      while (this.#at < this.#items.length && this.#now < slice) {
        const i = this.#items[this.#at++]!
        if ('text' in i) this.#chars -= i.text.length
        else this.#waiting--
        this.#apply(i)
      }
      if (this.#at > 1000 || this.#at === this.#items.length) {
        this.#items.splice(0, this.#at)
        this.#at = 0
      }
      if (this.#waiting <= maxWaiting) for (const go of this.#room.splice(0)) go()
    } while (this.#items.length > 0 || this.#now > 0)
    this.#going = false
  }

  /** Skips the oldest text, up to the beginning of a line. */
  #skip(): void {
    const next: Item[] = []
    let left = this.#chars
    for (let at = this.#at; at < this.#items.length; at++) {
      const i = this.#items[at]!
      if (!('text' in i) || left <= before) {
        next.push(i)
        continue
      }
      const last = left - i.text.length <= before
      const end = last ? Math.max(i.text.lastIndexOf('\n'), i.text.lastIndexOf('\r')) + 1 : i.text.length
      let lines = 0
      for (let p = i.text.indexOf('\n'); p >= 0 && p < end; p = i.text.indexOf('\n', p + 1)) lines++
      left -= i.text.length
      const earlier = next.at(-1)
      if (earlier && 'skipped' in earlier && earlier.out === i.out) earlier.skipped += lines
      else next.push({ out: i.out, skipped: lines })
      if (end < i.text.length) next.push({ ...i, text: i.text.slice(end) })
    }
    this.#items = next
    this.#at = 0
    this.#count()
  }

  #count(): void {
    this.#chars = this.#items.reduce((n, i) => n + ('text' in i ? i.text.length : 0), 0)
    this.#waiting = this.#items.filter((i) => !('text' in i)).length
  }
}
