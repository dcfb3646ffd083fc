import { useEffect, useState } from 'preact/hooks'
import { t } from '../language/texts'
import { rest } from '../rest'
import { explain } from '../ui/again'
import { Dialog } from '../ui/dialog'
import type { Template } from './templates'

/** Shows the output of a template's build, and the error if it failed. */
export function BuildLog({ name, onClose }: { name: string; onClose(): void }) {
  const [found, setFound] = useState<Template & { log?: string }>()
  const [error, setError] = useState<Error>()
  useEffect(() => void rest<Template & { log?: string }>('GET', `/v1/templates/${encodeURIComponent(name)}`).then(setFound, setError), [name])
  return (
    <Dialog label={t('Build of {name}', { name })} class="wide-dialog" onClose={onClose}>
      <div class="dialog">
        <h2>{t('Build of {name}', { name })}</h2>
        {error && <p class="bad" role="alert">{explain(error)}</p>}
        {found?.error && <p class="bad">{explain(new Error(found.error))}</p>}
        {found && <pre class="build-log" tabIndex={0} aria-label={t('Build output')}>{found.log || t('The build printed nothing.')}</pre>}
        <div class="actions"><button type="button" class="button" onClick={onClose}>{t('Close')}</button></div>
      </div>
    </Dialog>
  )
}
