import type { Signal } from '@preact/signals'
import { plural, t, time } from '../language/texts'
import { languageName } from '../server'
import type { KernelLink } from './kernels'

/** An event of a kernel's log that concerns the whole session. */
export interface SessionEvent { event: string; time?: number; [more: string]: unknown }

interface Variables { kept?: string[]; kept_count?: number; lost?: string[]; lost_count?: number }

/** Returns some names, and how many more there are. */
function listed(names: string[] = [], count = names.length): string {
  const more = count - names.length
  return names.join(', ') + (more > 0 ? ` ${plural(more, 'and {n} more', 'and {n} more')}` : '')
}

/** Says what has happened to a session by an event; undefined for events that need no words. */
export function newsOf(e: SessionEvent, kernel: string): string | undefined {
  const language = languageName(kernel)
  const { kept, kept_count: keptCount = 0, lost, lost_count: lostCount = 0 } = (e.variables ?? {}) as Variables
  const at = (ms: unknown) => time(Number(ms), { dateStyle: 'medium', timeStyle: 'medium' })
  switch (e.event) {
    case 'upgraded':
      return `${t('The session moved to a new version of the server, with its files. Running programs have ended.')} ${keptCount > 0 ? t('Variables of {language} come back when you run a cell.', { language }) : t('Variables of {language} are lost.', { language })}`
    case 'variables_restored':
      return [
        keptCount > 0 && t('{language} has these variables again: {names}.', { language, names: listed(kept, keptCount) }),
        lostCount > 0 && t('Not kept: {names}.', { names: listed(lost, lostCount) }),
      ].filter(Boolean).join(' ') || undefined
    case 'recovered':
      return t('The server was killed. The session continues from its copy of {time}, and later work is lost.', { time: at(e.as_of_ms) })
    case 'taken_over':
      return t('The machine of the session failed. The session continues from its copy of {time}, and later work is lost.', { time: at(e.as_of_ms) })
  }
  return undefined
}

/** Messages, and the component that shows them until the user closes it. */
export interface News { View: typeof View; texts: string[] }

/** A clock may be wrong by this time, in microseconds. */
const skew = 60e6

/**
 * Adds the words for an event to the messages that are shown, unless the event is history: it was
 * there before the page, and the page has not read the log from an earlier place.
 */
export function add(news: Signal<News | undefined>, e: SessionEvent, kernel: KernelLink): void {
  if (!kernel.from?.offset && e.time! < performance.timeOrigin * 1000 - skew) return
  const text = newsOf(e, kernel.language)
  if (text) news.value = { View, texts: [...(news.peek()?.texts ?? []).filter((other) => other !== text), text].slice(-5) }
}

function View({ of }: { of: Signal<News | undefined> }) {
  return (
    <div class="session-news" role="status">
      <ul>{of.value?.texts.map((text) => <li key={text}>{text}</li>)}</ul>
      <button type="button" class="button" onClick={() => (of.value = undefined)}>{t('Close')}</button>
    </div>
  )
}
