import { useState } from 'preact/hooks'
import { t } from '../language/texts'
import { rest } from '../rest'
import { languages } from '../server'
import { explain } from '../ui/again'
import { Dialog } from '../ui/dialog'
import { tar } from './tar'

/** Files from which packages are installed, with the package manager of each. */
export function packageOf(file: string): { manager: 'python' | 'javascript' | 'java'; name: string } | undefined {
  if (/^[A-Za-z0-9_][\w.+-]*\.jar$/.test(file)) return { manager: 'java', name: file }
  const wheel = /^([A-Za-z0-9_.]+?)-\d[^/]*\.whl$/.exec(file) ?? /^([A-Za-z0-9_.-]+?)-\d[^/]*\.tar\.gz$/.exec(file)
  if (wheel) return { manager: 'python', name: wheel[1]!.replaceAll('_', '-') }
  const npm = /^([a-z0-9_.-]+?)-\d[^/]*\.tgz$/.exec(file)
  return npm ? { manager: 'javascript', name: npm[1]! } : undefined
}

/** Parses lines of NAME=value. Throws with the invalid line. */
export function parseEnv(text: string): Record<string, string> {
  return Object.fromEntries(text.split('\n').filter((l) => l.trim()).map((l) => {
    const m = /^\s*([A-Za-z_]\w*)=(.*)$/.exec(l)
    if (!m) throw new Error(t('“{line}” is not of the form NAME=value', { line: l.trim().slice(0, 40) }))
    return [m[1]!, m[2]!]
  }))
}

/** Parses lines of NAME, NAME:/PATH, NAME::ro or NAME:/PATH:ro. Throws with the invalid line. */
export function parseVolumes(text: string): { name: string; path?: string; read_only?: boolean }[] {
  return text.split('\n').map((l) => l.trim()).filter(Boolean).map((l) => {
    const m = /^([A-Za-z0-9][\w.-]*)(?::(\/[^:]*)?)?(?::(ro|rw))?$/.exec(l)
    if (!m) throw new Error(t('“{line}” is not a volume: NAME, NAME:/PATH or NAME:/PATH:ro', { line: l.slice(0, 40) }))
    return { name: m[1]!, ...(m[2] ? { path: m[2] } : {}), ...(m[3] === 'ro' ? { read_only: true } : {}) }
  })
}

/** Languages with named packages, and an example of a package. */
const named: Record<string, string> = {
  python: 'tinydb numpy==2.1', javascript: 'left-pad @types/node', golang: 'golang.org/x/text/language', php: 'monolog/monolog:^3.0', java: 'com.google.code.gson:gson:2.11.0',
}

/** An example of startup code. */
const startup = 'import pandas as pd'

/** A form for the content of a template, which starts its build. */
export function NewTemplate({ taken, onClose, onMade }: { taken: string[]; onClose(): void; onMade(): void }) {
  const [name, setName] = useState('')
  const [description, setDescription] = useState('')
  const [chosen, setChosen] = useState<string[]>(() => languages.peek().slice(0, 1).map((l) => l.name))
  const [files, setFiles] = useState<File[]>([])
  const [code, setCode] = useState('')
  const [run, setRun] = useState('')
  const [env, setEnv] = useState('')
  const [names, setNames] = useState<Record<string, string>>({})
  const [volumes, setVolumes] = useState('')
  const [buildOut, setBuildOut] = useState(false)
  const [sessionsOut, setSessionsOut] = useState(false)
  const [error, setError] = useState('')
  const [sending, setSending] = useState(false)

  const build = async () => {
    setError('')
    try {
      const packages: Record<string, string[]> = {}
      for (const f of files) {
        const p = packageOf(f.name)
        if (!p) throw new Error(t('{name} is neither a wheel (.whl), a source of Python (.tar.gz), a package of npm (.tgz) nor a jar', { name: f.name }))
        ;(packages[p.manager] ??= []).push(p.name)
      }
      for (const language of chosen) {
        const list = named[language] ? (names[language] ?? '').split(/\s+/).filter(Boolean) : []
        if (list.length) packages[language] = [...(packages[language] ?? []), ...list]
      }
      const mounts = parseVolumes(volumes)
      const commands = run.split('\n').map((l) => l.trim()).filter(Boolean)
      const variables = parseEnv(env)
      const spec = {
        languages: chosen,
        ...(description.trim() ? { description: description.trim() } : {}), ...(Object.keys(variables).length ? { env: variables } : {}),
        ...(Object.keys(packages).length ? { packages } : {}), ...(mounts.length ? { volumes: mounts } : {}),
        ...(buildOut ? { build_network: true } : {}), ...(sessionsOut ? { session_network: true } : {}), ...(commands.length ? { run: commands } : {}), ...(code.trim() ? { code } : {}),
      }
      setSending(true)
      await rest('PUT', `/v1/templates/${encodeURIComponent(name.trim())}`, tar([
        { name: 'template.json', content: new Blob([JSON.stringify(spec)]) }, ...files.map((f) => ({ name: `packages/${f.name}`, content: f })),
      ]))
      onMade()
    } catch (e) {
      setError(explain(e as Error))
      setSending(false)
    }
  }
  return (
    <Dialog label={t('New template')} class="wide-dialog" onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); void build() }}>
        <h2>{t('New template')}</h2>
        <p class="muted">{t('Sessions start from a template at once, with its packages installed and its startup code already run. The server builds it once, which takes about a minute.')}</p>
        <div class="two">
          <label class="labelled">{t('Name')}<input class="field" value={name} required maxLength={63} pattern="[a-z0-9][a-z0-9\-]*" title={t('Lower-case letters, digits and hyphens')} autofocus autocomplete="off" spellcheck={false} onInput={(e) => setName(e.currentTarget.value)} /></label>
          <label class="labelled">{t('Description')}<input class="field" value={description} maxLength={200} onInput={(e) => setDescription(e.currentTarget.value)} /></label>
        </div>
        {taken.includes(name.trim()) && <p class="hint">{t('A template with this name exists. It is replaced. Its sessions keep running.')}</p>}
        <fieldset class="choices">
          <legend>{t('Languages')} <span class="muted">{t('the first one starts at once')}</span></legend>
          {languages.value.map((l) => (
            <label key={l.name}><input type="checkbox" checked={chosen.includes(l.name)} onChange={(e) => setChosen(e.currentTarget.checked ? [...chosen, l.name] : chosen.filter((c) => c !== l.name))} />
              {l.display_name.replace(' and TypeScript', ' / TS')}{chosen.length > 1 && chosen[0] === l.name && <span class="badge">{t('warm')}</span>}</label>
          ))}
        </fieldset>
        <label class="labelled">{t('Packages')} <span class="muted">{t('files for pip (.whl, .tar.gz) or npm (.tgz), and jars, with all that they need: a sandbox has no network')}</span>
          <input class="field" type="file" multiple accept=".whl,.tgz,.gz,.jar" onChange={(e) => setFiles([...(e.currentTarget.files ?? [])])} /></label>
        <details>
          <summary>{t('Packages from an index')}</summary>
          <div class="more-fields">
            {chosen.filter((l) => named[l]).map((l) => (
              <label key={l} class="labelled">{languages.peek().find((x) => x.name === l)?.display_name ?? l} <span class="muted">{t('names, with spaces between')}</span>
                <input class="field code" value={names[l] ?? ''} placeholder={named[l]} autocomplete="off" spellcheck={false} onInput={(e) => { setNames({ ...names, [l]: e.currentTarget.value }); if (e.currentTarget.value.trim()) setBuildOut(true) }} /></label>
            ))}
            <div class="choices"><label><input type="checkbox" checked={buildOut} onChange={(e) => setBuildOut(e.currentTarget.checked)} /> {t('The build may reach what the server lets out; nothing of that is left for sessions')}</label></div>
          </div>
        </details>
        <label class="labelled">{t('Startup code')} <span class="muted">{t('runs once, in the first language')}</span>
          <textarea class="field code" rows={4} value={code} spellcheck={false} placeholder={startup} onInput={(e) => setCode(e.currentTarget.value)} /></label>
        <details>
          <summary>{t('Commands, environment, volumes, network')}</summary>
          <div class="more-fields">
            <label class="labelled">{t('Commands')} <span class="muted">{t('one per line, run once in a shell')}</span><textarea class="field code" rows={2} value={run} spellcheck={false} onInput={(e) => setRun(e.currentTarget.value)} /></label>
            <label class="labelled">{t('Environment')} <span class="muted">{t('NAME=value, one a line')}</span><textarea class="field code" rows={2} value={env} spellcheck={false} onInput={(e) => setEnv(e.currentTarget.value)} /></label>
            <label class="labelled">{t('Volumes')} <span class="muted">{t('of each session, one per line: NAME:/PATH, or NAME:/PATH:ro for read-only')}</span><textarea class="field code" rows={2} value={volumes} spellcheck={false} onInput={(e) => setVolumes(e.currentTarget.value)} /></label>
            <div class="choices"><label><input type="checkbox" checked={sessionsOut} onChange={(e) => setSessionsOut(e.currentTarget.checked)} /> {t('Its sessions may use the network, as far as the server allows')}</label></div>
          </div>
        </details>
        {error && <p class="bad" role="alert" ref={(el) => el?.scrollIntoView({ block: 'nearest' })}>{t('The template was not made.')} {error}</p>}
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>{t('Cancel')}</button>
          <button class="button primary" disabled={sending || chosen.length === 0}>{sending ? t('Sending…') : t('Build it')}</button>
        </div>
      </form>
    </Dialog>
  )
}
