/** A file that was dropped, with its path below what was dropped. */
export interface Dropped {
  name: string
  file: File
}

/** Whether a drag brings files. */
export const bringsFiles = (e: DragEvent): boolean => e.dataTransfer?.types.includes('Files') ?? false

/** Returns the dropped files, and those in dropped folders. */
export async function dropped(e: DragEvent): Promise<Dropped[]> {
  const plain = [...(e.dataTransfer?.files ?? [])].map((file) => ({ name: file.name, file }))
  const items = [...(e.dataTransfer?.items ?? [])].map((i) => i.webkitGetAsEntry?.()).filter((x) => x !== null && x !== undefined)
  return items.length ? (await Promise.all(items.map((i) => walk(i, '')))).flat() : plain
}

/** Lists a file, or the content of a folder. */
async function walk(e: FileSystemEntry, at: string): Promise<Dropped[]> {
  const name = at + e.name
  if (e.isFile) return [{ name, file: await new Promise<File>((ok, no) => (e as FileSystemFileEntry).file(ok, no)) }]
  const reader = (e as FileSystemDirectoryEntry).createReader()
  const out: Dropped[] = []
  for (;;) {
    const batch = await new Promise<FileSystemEntry[]>((ok, no) => reader.readEntries(ok, no))
    if (batch.length === 0) return out
    for (const b of batch) out.push(...await walk(b, `${name}/`))
  }
}
