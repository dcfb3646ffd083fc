import { plural, t } from '../language/texts'

/** A file to upload, with its path below the folder that gets it. */
export interface Incoming {
  name: string
  file: File
}

/** The files of a folder that a user has chosen, with their paths in it. */
export function inFolder(files: Iterable<File>): Incoming[] {
  return [...files].map((file) => ({ name: file.webkitRelativePath || file.name, file }))
}

/**
 * Returns the question to ask before files are uploaded to a folder with these names; undefined if
 * none of them is there. Files of a folder that exists are added to it.
 */
export function questionFor(files: Incoming[], taken: ReadonlySet<string>): { title: string; text: string; yes: string } | undefined {
  const single = files.filter((f) => !f.name.includes('/') && taken.has(f.name))
  const folders = [...new Set(files.flatMap((f) => (f.name.includes('/') ? [f.name.split('/')[0]!] : [])))].filter((name) => taken.has(name))
  if (single.length > 0) return { title: single.length === 1 ? t('Replace {name}?', { name: single[0]!.name }) : plural(single.length, 'Replace {n} file?', 'Replace {n} files?'), text: t('Files with these names exist.'), yes: t('Replace') }
  if (folders.length > 0) return { title: folders.length === 1 ? t('Add to the folder {name}?', { name: folders[0]! }) : plural(folders.length, 'Add to {n} folder?', 'Add to {n} folders?'), text: t('Files in it with the same names are replaced.'), yes: t('Add') }
  return undefined
}
