import { useEffect, useState } from 'preact/hooks'

interface Props {
  label: string
  placeholder: string
  value: string
  /** The id of a list of suggestions. */
  list?: string
  /** Called with Enter, and when the field is left. */
  entered(text: string): void
}

/** A field of a filter. Its text stays while the page shows new answers, until it is entered. */
export function Words({ label, placeholder, value, list, entered }: Props) {
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  return <input class="field grow" type="search" aria-label={label} placeholder={placeholder} list={list} value={text} onInput={(e) => setText(e.currentTarget.value)} onChange={(e) => entered(e.currentTarget.value.trim())} />
}
