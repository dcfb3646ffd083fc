import type { ComponentChildren } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { t } from '../language/texts'
import { restBlob } from '../rest'
import { explain, mayHelp } from '../ui/again'
import { Icon } from '../ui/icon'
import { failed } from '../ui/toast'

/** Something that a view requests: the last answer, the last error, and a function to ask again. */
export interface Loaded<T> {
  value: T | undefined
  error: Error | undefined
  again(): Promise<void>
}

/**
 * Requests something when a view opens, when its inputs change, and, with every, again after that
 * time in ms while the page is visible. An answer that is older than a later one is dropped.
 */
export function useLoaded<T>(load: () => Promise<T>, inputs: readonly unknown[], every = 0): Loaded<T> {
  const [value, setValue] = useState<T>()
  const [error, setError] = useState<Error>()
  const latest = useRef(0)
  const again = useCallback(async () => {
    const n = ++latest.current
    try {
      const v = await load()
      if (n !== latest.current) return
      setValue(() => v)
      setError(undefined)
    } catch (e) {
      if (n === latest.current) setError(e as Error)
    }
  }, inputs)
  useEffect(() => {
    void again()
    let gone = false
    let timer: ReturnType<typeof setTimeout> | undefined
    if (every) {
      timer = setTimeout(async function next() {
        if (!document.hidden) await again()
        if (!gone) timer = setTimeout(next, every)
      }, every)
    }
    return () => {
      gone = true
      latest.current++
      clearTimeout(timer)
    }
  }, [again])
  return { value, error, again }
}

/** Shows an error of a view, or a place holder until the first answer, or the content. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  return (
    <>
      {of.error && <div class="notice bad" role="alert"><Icon name="warning" /><span class="grow">{explain(of.error)}</span>{mayHelp(of.error) && <button type="button" class="button" onClick={() => void of.again()}>{t('Try again')}</button>}</div>}
      {of.value !== undefined ? children(of.value) : !of.error && <div class="session skeleton" aria-busy="true" />}
    </>
  )
}

export const restText = async (path: string): Promise<string> => (await restBlob(path)).text()

/** Saves a table of comma-separated values as a file. */
export async function saveFile(table: () => Promise<string>, name: string): Promise<void> {
  try {
    const a = document.createElement('a')
    a.href = URL.createObjectURL(new Blob([await table()], { type: 'text/csv' }))
    a.download = name
    a.click()
    setTimeout(() => URL.revokeObjectURL(a.href), 10_000)
  } catch (e) {
    failed(t('The table was not saved'), e)
  }
}
