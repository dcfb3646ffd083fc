import type { FileInfo, Sandbox } from '@sandgate/client/base'
import { questionFor } from '../files/chosen'
import { plural, t } from '../language/texts'
import type { Dropped } from '../notebook/drop'
import { filesPath, rest } from '../rest'
import { confirm } from '../ui/dialog'
import { toast } from '../ui/toast'
import type { Screen } from './screen'

/** The number of files whose names are typed for the user. */
const maxNames = 20

const quoted = (name: string): string => (/^[\w./@%+,:=-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`)

/**
 * Uploads files into the folder of the shell, or into the user's home. If the shell waits for a
 * command, their names are typed.
 */
export async function dropFiles(session: Sandbox, screen: Screen, files: Dropped[]): Promise<void> {
  const { folder, atPrompt } = screen.marks
  if (files.length === 0) return
  const { entries, path } = await rest<{ path: string; entries: FileInfo[] }>('GET', `${filesPath(session.id, folder)}?list&limit=1000`)
  const question = questionFor(files, new Set(entries.map((e) => e.path.split('/').pop()!)))
  if (question && !await confirm({ ...question, danger: true })) return
  for (const { name, file } of files) await session.files.write(`${path}/${name}`, file)
  toast(files.length === 1 ? t('{name} is in {path}', { name: files[0]!.name, path }) : plural(files.length, '{n} file is in {path}', '{n} files are in {path}', { path }))
  const names = [...new Set(files.map((f) => f.name.split('/')[0]!))]
  if (atPrompt && folder && names.length <= maxNames) await screen.paste(`${names.map(quoted).join(' ')} `)
}
