import icon from './icon.svg'
import { useEffect, useRef, useState } from 'preact/hooks'
import { refused } from './server'
import { provider, signIn, signOut, viewing } from './token'
import { explain } from './ui/again'
import { Bar } from './ui/bar'

/** Shows a form for the token. */
export default function SignIn() {
  const field = useRef<HTMLInputElement>(null)
  const [login, setLogin] = useState<string>()
  useEffect(() => void provider().then(setLogin), [])
  if (viewing.value) {
    return (
      <>
        <Bar />
        <main class="centred">
          <h1>This link has ended</h1>
          <p>A link for viewing ends when it expires, when its session ends, or when its owner ends it. Ask the sender for a new one.</p>
          <button type="button" class="button primary" onClick={signOut}>Sign in instead</button>
        </main>
      </>
    )
  }
  return (
    <>
      <Bar />
      <main class="centred">
        <img src={icon} alt="" width="56" height="56" />
        <h1>Sign in</h1>
        {login && <p><a class="button primary" href={`${login}?to=${encodeURIComponent(location.pathname + location.search)}`}>Sign in with your organisation</a></p>}
        <p>Open the address that <code>sandgate serve</code> has printed, or paste it, or the token alone, here. <code>sandgate token</code> prints the token again.</p>
        <form class="signin" onSubmit={(e) => { e.preventDefault(); if (field.current?.value.trim()) signIn(field.current.value) }}>
          <input ref={field} class="field" type="password" aria-label="Token" placeholder="sgt_…" autocomplete="current-password" autofocus required />
          <button class="button primary">Sign in</button>
        </form>
        {refused.value && <p role="alert" class="bad">{explain(new Error(refused.value.message))}</p>}
      </main>
    </>
  )
}
