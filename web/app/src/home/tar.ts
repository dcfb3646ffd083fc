import { t } from '../language/texts'

/** A regular file of an archive. */
export interface Entry {
  name: string
  content: Blob
}

const block = 512

/** Returns the files as a tar, in order. A name has at most 100 bytes. */
export function tar(entries: Entry[]): Blob {
  const parts: BlobPart[] = []
  for (const { name, content } of entries) {
    const head = new Uint8Array(block)
    const bytes = new TextEncoder().encode(name)
    if (bytes.length > 100) throw new Error(t('{name} has a name of over 100 bytes', { name }))
    const put = (at: number, text: string) => head.set(new TextEncoder().encode(text), at)
    const octal = (at: number, size: number, n: number) => put(at, `${n.toString(8).padStart(size - 1, '0')}\0`)
    head.set(bytes)
    octal(100, 8, 0o644)
    octal(108, 8, 0)
    octal(116, 8, 0)
    octal(124, 12, content.size)
    octal(136, 12, 0)
    put(148, ' '.repeat(8))
    put(156, '0')
    put(257, 'ustar\x0000')
    octal(148, 7, head.reduce((a, b) => a + b, 0))
    parts.push(head, content, new Uint8Array((block - (content.size % block)) % block))
  }
  return new Blob([...parts, new Uint8Array(2 * block)], { type: 'application/x-tar' })
}
