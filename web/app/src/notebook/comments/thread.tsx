import { newKey } from '@sandgate/client/base'
import { useEffect, useRef, useState } from 'preact/hooks'
import { plural, t, time } from '../../language/texts'
import { confirm } from '../../ui/dialog'
import { Icon } from '../../ui/icon'
import type { CellModel } from '../cell'
import { isResolved, maxComments, maxText, type Comment } from '../comment'
import type { Notebook } from '../notebook'
import { savedName } from '../shared/members'
import './comments.css'

/** The name of this user, as the others see it; empty if it has none. */
const nameOf = (n: Notebook): string => n.sharing.peek()?.people.peek().find((p) => p.self)?.user.name || savedName()

/** The comments of a cell, oldest first, and a field for the next one. Resolved ones are folded. */
export function Thread({ notebook: n, cell: c }: { notebook: Notebook; cell: CellModel }) {
  const list = c.comments.value
  const resolved = isResolved(list)
  const [open, setOpen] = useState(false)
  if (resolved && !open && !c.commenting.value) {
    return <div class="comments"><button type="button" class="button quiet" aria-expanded={false} onClick={() => setOpen(true)}><Icon name="check" />{plural(list.length, '1 comment, resolved', '{n} comments, resolved')}</button></div>
  }
  const resolve = () => {
    c.comments.value = list.map(({ resolved: _, ...one }) => (resolved ? one : { ...one, resolved: true }))
    c.commenting.value = false
    setOpen(false)
    n.said.value = resolved ? t('The comments are open again') : t('The comments are resolved')
  }
  return (
    <div class="comments" role="group" aria-label={list.length ? plural(list.length, '1 comment on this cell', '{n} comments on this cell') : t('A comment on this cell')}>
      {list.map((one) => <Entry key={one.id} notebook={n} cell={c} comment={one} />)}
      {!n.readOnly && <Write notebook={n} cell={c} />}
      {list.length > 0 && !n.readOnly && <button type="button" class="button quiet" onClick={resolve}><Icon name={resolved ? 'restart' : 'check'} />{resolved ? t('Open again|comments') : t('Resolve|comments')}</button>}
      {resolved && open && <button type="button" class="button quiet" onClick={() => setOpen(false)}>{t('Hide')}</button>}
    </div>
  )
}

function Entry({ notebook: n, cell: c, comment: one }: { notebook: Notebook; cell: CellModel; comment: Comment }) {
  const by = one.by || t('Somebody')
  return (
    <article class="comment" aria-label={t('Comment by {name}', { name: by })}>
      <p class="row"><strong class="ellipsis">{by}</strong><time class="muted grow" dateTime={new Date(one.at).toISOString()}>{time(one.at)}</time>
        {!n.readOnly && <button type="button" class="button icon quiet" aria-label={t('Delete the comment by {name}', { name: by })} title={t('Delete')} onClick={async () => {
          if (!await confirm({ title: t('Delete the comment?'), text: one.text.slice(0, 200), yes: t('Delete'), danger: true })) return
          c.comments.value = c.comments.peek().filter((x) => x.id !== one.id)
        }}><Icon name="trash" /></button>}
      </p>
      <p class="comment-text">{one.text}</p>
    </article>
  )
}

/** A field for the next comment. Ctrl+Enter sends it, Escape leaves it. */
function Write({ notebook: n, cell: c }: { notebook: Notebook; cell: CellModel }) {
  const field = useRef<HTMLTextAreaElement>(null)
  const wanted = c.commenting.value
  useEffect(() => {
    if (wanted) field.current?.focus()
  }, [wanted])
  if (c.comments.value.length >= maxComments) return <p class="muted">{t('A cell has at most {n} comments.', { n: maxComments })}</p>
  const send = () => {
    const text = field.current!.value.trim()
    if (!text) return field.current!.focus()
    const open = c.comments.peek().map(({ resolved: _, ...one }) => one)
    c.comments.value = [...open, { id: newKey(), by: nameOf(n), at: Date.now(), text }]
    c.commenting.value = false
    field.current!.value = ''
    n.said.value = t('The comment was added')
  }
  const leave = () => {
    c.commenting.value = false
    n.select(c.id)
    n.mode.value = 'command'
    n.focus()
  }
  return (
    <form class="row comment-write" onSubmit={(e) => { e.preventDefault(); send() }}>
      <textarea ref={field} class="field grow" rows={1} maxLength={maxText} aria-label={t('Comment')} placeholder={c.comments.value.length ? t('Reply') : t('Comment on this cell')} onKeyDown={(e) => {
        if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) {
          e.preventDefault()
          send()
        } else if (e.key === 'Escape') leave()
      }} />
      <button class="button">{t('Send')}</button>
    </form>
  )
}
