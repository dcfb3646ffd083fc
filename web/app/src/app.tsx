import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { SandgateError } from '@sandgate/client/base'
import { t } from './language/texts'
import { client, describe, description, refused } from './server'
import { route, type Route } from './router'
import { offered, signIn, signOut, token, viewing } from './token'
import { explain, mayHelp } from './ui/again'
import { Banner } from './ui/banner'
import { Bar } from './ui/bar'
import { confirm, Questions } from './ui/dialog'
import { Icon } from './ui/icon'
import { paletteOpen } from './ui/palette'
import { failed, Toasts } from './ui/toast'

/** The properties of a page. It is created again for another session. */
export interface PageProps {
  session: string
}

type Page = ComponentType<PageProps>
type Pages = Exclude<Route['page'], 'missing'> | 'signin'
// Each page is a separate chunk.
const pages: Record<Pages, () => Promise<{ default: Page }>> = {
  home: () => import('./home/page'),
  notebook: () => import('./notebook/page'),
  terminal: () => import('./terminal/page'),
  console: () => import('./console/page'),
  signin: () => import('./signin'),
}

export function App() {
  return (
    <>
      <Banner />
      <Content />
      <CommandPalette />
      <Questions />
      <Toasts />
    </>
  )
}

/**
 * The palette, which is loaded when it is first opened. The notebook and terminals handle its keys.
 */
function CommandPalette() {
  const [Host, setHost] = useState<ComponentType | undefined>()
  const open = paletteOpen.value
  useEffect(() => {
    if (open && !Host) void import('./palette/host').then((m) => setHost(() => m.PaletteHost), (e: unknown) => {
      paletteOpen.value = false
      failed(t('The command palette could not be loaded'), e)
    })
  }, [open])
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const asks = (e.ctrlKey || e.metaKey) && !e.altKey && (e.shiftKey ? e.key.toLowerCase() === 'p' : e.key === 'k')
      if (!asks || e.defaultPrevented || !['home', 'console'].includes(route.peek().page) || !description.peek()) return
      e.preventDefault()
      paletteOpen.value = true
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [])
  return Host && <Host />
}

/** Asks before a token of the address replaces the one in use. */
function useOffered() {
  const given = offered.value
  useEffect(() => {
    if (!given) return
    void confirm({
      title: t('Use the access token of this address?'),
      text: t('You are signed in with another token. The sender of the address may see everything that you do with this token. Continue only if the address is yours.'),
      yes: t('Use the other token'),
    }).then((yes) => {
      offered.value = ''
      if (yes) signIn(given)
    })
  }, [given])
}

function Content() {
  useOffered()
  const { page, session } = route.value
  if (!token.value || !client.value) return <Loaded page="signin" session="" />
  const e = refused.value
  if (e?.kind === 'unauthenticated') return <Loaded page="signin" session="" />
  if (e) return <Unreachable error={e} />
  if (page === 'missing') return <Missing />
  return <Loaded key={`${page}/${session}`} page={page} session={session} />
}

/**
 * Says why the server cannot be used. If it may come back, the notebooks of this browser are shown.
 */
function Unreachable({ error: e }: { error: SandgateError }) {
  const [Offline, setOffline] = useState<typeof import('./offline/page').Offline>()
  const wait = mayHelp(e)
  useEffect(() => {
    if (wait && !viewing.peek()) void import('./offline/page').then((m) => setOffline(() => m.Offline), () => {}) // then this page must do
  }, [wait])
  const buttons = (
    <>
      {wait && <button type="button" class="button primary" onClick={() => void describe(client.value!)}>{t('Try again')}</button>}
      <button type="button" class={wait ? 'button' : 'button primary'} onClick={signOut}>{t('Sign out')}</button>
    </>
  )
  if (wait && Offline) return <Offline error={e}>{buttons}</Offline>
  return (
    <>
      <Bar />
      <main class="centred"><Icon name="warning" /><h1>{t('The server cannot be reached')}</h1><p>{explain(e)}</p><div class="row">{buttons}</div></main>
    </>
  )
}

function Loaded({ page, session }: { page: Pages; session: string }) {
  const [Page, setPage] = useState<Page | undefined>()
  const [error, setError] = useState<Error | undefined>()
  useEffect(() => {
    let here = true
    pages[page]().then((m) => here && setPage(() => m.default), (e: Error) => here && setError(e))
    return () => {
      here = false
    }
  }, [page])
  if (error) return <main class="centred"><h1>{t('This page could not be loaded')}</h1><p>{error.message}</p><button type="button" class="button primary" onClick={() => location.reload()}>{t('Reload')}</button></main>
  // The rights of the user decide what a page shows.
  return Page && (description.value || page === 'signin') ? <Page session={session} /> : <Bar />
}

function Missing() {
  return (
    <>
      <Bar />
      <main class="centred"><h1>{t('Page not found')}</h1><p>{t('The address may be incomplete.')}</p><a class="button" href="/">{t('All sessions')}</a></main>
    </>
  )
}
