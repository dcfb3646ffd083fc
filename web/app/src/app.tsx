import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { client, describe, description, refused } from './server'
import { route, type Route } from './router'
import { offered, signIn, signOut, token } from './token'
import { explain, mayHelp } from './ui/again'
import { Banner } from './ui/banner'
import { Bar } from './ui/bar'
import { confirm, Questions } from './ui/dialog'
import { Icon } from './ui/icon'
import { Toasts } from './ui/toast'

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
      <Questions />
      <Toasts />
    </>
  )
}

/** Asks before a token of the address replaces the one in use. */
function useOffered() {
  const given = offered.value
  useEffect(() => {
    if (!given) return
    void confirm({
      title: 'Use the access token of this address?',
      text: 'You are signed in with another token. The sender of the address may see everything that you do with this token. Continue only if the address is yours.',
      yes: 'Use the other token',
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
  if (e) {
    return (
      <>
        <Bar />
        <main class="centred">
          <Icon name="warning" />
          <h1>The server cannot be reached</h1>
          <p>{explain(e)}</p>
          <div class="row">
            {mayHelp(e) && <button type="button" class="button primary" onClick={() => void describe(client.value!)}>Try again</button>}
            <button type="button" class={mayHelp(e) ? 'button' : 'button primary'} onClick={signOut}>Sign out</button>
          </div>
        </main>
      </>
    )
  }
  if (page === 'missing') return <Missing />
  return <Loaded key={`${page}/${session}`} page={page} session={session} />
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
  if (error) return <main class="centred"><h1>This page could not be loaded</h1><p>{error.message}</p><button type="button" class="button primary" onClick={() => location.reload()}>Reload</button></main>
  // The rights of the user decide what a page shows.
  return Page && (description.value || page === 'signin') ? <Page session={session} /> : <Bar />
}

function Missing() {
  return (
    <>
      <Bar />
      <main class="centred"><h1>Page not found</h1><p>The address may be incomplete.</p><a class="button" href="/">All sessions</a></main>
    </>
  )
}
