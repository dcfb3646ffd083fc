import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { number, t } from '../language/texts'
import { Dialog } from '../ui/dialog'
import { kindNames, pageEntries, type Entry } from '../ui/palette'
import { commonEntries, otherSessions, sessionFiles, settingEntries } from './entries'
import { match, maxShown } from './match'
import './palette.css'

/** Entries that are requested. */
type Part = 'files' | 'sessions'

/** Describes the parts that could not be listed; empty if there are none. */
function notListed(missing: Part[]): string {
  if (missing.length > 1) return t('The files and sessions could not be listed.')
  if (missing.length === 0) return ''
  return missing[0] === 'files' ? t('The files could not be listed.') : t('The sessions could not be listed.')
}

/** Finds commands, settings, files and sessions by words, and runs the chosen one. */
export function Palette({ open, close }: { open: (path: string) => void; close: () => void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const [more, setMore] = useState<Entry[]>([])
  const [waits, setWaits] = useState(2)
  const [missing, setMissing] = useState<Part[]>([])
  const list = useRef<HTMLUListElement>(null)
  const near = useMemo(() => [...pageEntries.peek()(), ...commonEntries(), ...settingEntries()], [])
  useEffect(() => {
    let here = true
    for (const [what, load] of [['files', sessionFiles(open)], ['sessions', otherSessions()]] as const) {
      void load.then((entries) => here && setMore((all) => [...all, ...entries]), () => here && setMissing((all) => [...all, what]))
        .finally(() => here && setWaits((n) => n - 1))
    }
    return () => {
      here = false
    }
  }, [])
  const kinds = kindNames()
  const found = useMemo(() => match([...near, ...more], text), [near, more, text])
  const shown = found.slice(0, maxShown)
  const chosen = shown[at]
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: 'nearest' }), [at, shown])
  const run = (e: Entry) => {
    close()
    // The dialog first returns the focus.
    setTimeout(() => e.run())
  }
  const key = (e: KeyboardEvent) => {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: Math.min(at + 8, shown.length - 1), PageUp: Math.max(at - 8, 0) }[e.key]
    if (to !== undefined && shown.length) {
      e.preventDefault()
      setAt((to + shown.length) % shown.length)
    } else if (e.key === 'Enter' && chosen) {
      e.preventDefault()
      run(chosen)
    }
  }
  const said = waits > 0 ? t('Looking for files and sessions…') : [
    found.length === 0 ? t('Nothing matches.') : found.length > maxShown ? t('The first {n} of {all}. Type more letters to see others.', { n: maxShown, all: number(found.length) }) : '',
    notListed(missing),
  ].filter(Boolean).join(' ')
  return (
    <Dialog label={t('Command palette')} class="palette" onClose={close}>
      <input class="field" autofocus role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" aria-activedescendant={chosen ? `palette-${at}` : undefined}
        aria-label={t('Command, file, session or setting')} placeholder={t('Search commands, files, sessions and settings')} autocomplete="off" spellcheck={false}
        value={text} onInput={(e) => { setText(e.currentTarget.value); setAt(0) }} onKeyDown={key} />
      <ul ref={list} id="palette-list" role="listbox" aria-label={t('Results')}>
        {shown.map((e, i) => (
          <li key={`${e.kind} ${e.id}`} id={`palette-${i}`} role="option" aria-selected={i === at} onClick={() => run(e)} onMouseMove={() => setAt(i)}>
            <span class="ellipsis">{e.name}</span>{e.note && <span class="muted ellipsis note">{e.note}</span>}
            <span class="grow" />{e.keys && <kbd>{e.keys}</kbd>}<span class="muted kind">{kinds[e.kind]}</span>
          </li>
        ))}
      </ul>
      <p class="muted palette-said" role="status">{said}</p>
    </Dialog>
  )
}
