export type FileKind = 'image' | 'audio' | 'video' | 'table' | 'markdown' | 'pdf' | 'other'

const types: Record<string, string> = {
  png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', apng: 'image/apng', ico: 'image/x-icon', webp: 'image/webp', bmp: 'image/bmp', avif: 'image/avif', svg: 'image/svg+xml',
  mp3: 'audio/mpeg', wav: 'audio/wav', ogg: 'audio/ogg', flac: 'audio/flac', m4a: 'audio/mp4', opus: 'audio/ogg', aac: 'audio/aac',
  pdf: 'application/pdf',
  mp4: 'video/mp4', webm: 'video/webm', mov: 'video/quicktime',
}
const languages: Record<string, string> = {
  py: 'python', js: 'javascript', mjs: 'javascript', jsx: 'javascript', ts: 'javascript', tsx: 'javascript', json: 'javascript',
  go: 'golang', java: 'java', php: 'php', sql: 'sql', sh: 'bash', bash: 'bash',
}

const extension = (name: string): string => /\.([^./]+)$/.exec(name)?.[1]?.toLowerCase() ?? ''

/** Returns how a file is shown, by its name. Other files are shown if they are text. */
export function kindOf(name: string): FileKind {
  const e = extension(name)
  const type = types[e]
  if (e === 'pdf') return 'pdf'
  if (type) return type.slice(0, type.indexOf('/')) as FileKind
  return e === 'csv' || e === 'tsv' ? 'table' : e === 'md' || e === 'markdown' ? 'markdown' : 'other'
}

export const typeOf = (name: string): string => types[extension(name)] ?? 'application/octet-stream'
/** Returns the language whose colours a file's text has; empty without one. */
export const languageOfFile = (name: string): string => languages[extension(name)] ?? ''
export const separatorOf = (name: string): string => (extension(name) === 'tsv' ? '\t' : ',')

/** Returns the text of a file, or undefined if it is no text in UTF-8. */
export function textIn(data: Uint8Array): string | undefined {
  if (data.subarray(0, 8192).includes(0)) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data)
  } catch {
    return undefined
  }
}
