import { t } from '../language/texts'
import { filesPath, restBlob } from '../rest'
import { failed } from '../ui/toast'
import { save } from '../notebook/rich'

/** Downloads a folder of a session as a zip archive. An empty path is the user's home. */
export async function downloadFolder(session: string, path: string): Promise<void> {
  const name = path.split('/').filter(Boolean).pop() ?? 'home'
  try {
    save(await restBlob(`${filesPath(session, path)}?archive=zip`), `${name}.zip`)
  } catch (e) {
    failed(t('The folder {name} was not downloaded', { name }), e)
  }
}
