import icon from './icon.svg'
import { useEffect, useRef, useState } from 'preact/hooks'
import { rich, t } from './language/texts'
import { refused } from './server'
import { provider, signIn, signOut, viewing } from './token'
import { explain } from './ui/again'
import { Bar } from './ui/bar'

/** The beginning of a token, to recognise one. */
const example = 'sgt_…'

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
          <h1>{t('This link has ended')}</h1>
          <p>{t('A link for viewing ends when it expires, when its session ends, or when its owner ends it. Ask the sender for a new one.')}</p>
          <button type="button" class="button primary" onClick={signOut}>{t('Sign in instead')}</button>
        </main>
      </>
    )
  }
  return (
    <>
      <Bar />
      <main class="centred">
        <img src={icon} alt="" width="56" height="56" />
        <h1>{t('Sign in')}</h1>
        {login && <p><a class="button primary" href={`${login}?to=${encodeURIComponent(location.pathname + location.search)}`}>{t('Sign in with your organisation')}</a></p>}
        <p>{rich('Open the address that {serve} has printed, or paste it, or the token alone, here. {token} prints the token again.', {
          serve: <code>sandgate serve</code>, token: <code>sandgate token</code>,
        })}</p>
        <form class="signin" onSubmit={(e) => { e.preventDefault(); if (field.current?.value.trim()) signIn(field.current.value) }}>
          <input ref={field} class="field" type="password" aria-label={t('Token')} placeholder={example} autocomplete="current-password" autofocus required />
          <button class="button primary">{t('Sign in')}</button>
        </form>
        {refused.value && <p role="alert" class="bad">{explain(new Error(refused.value.message))}</p>}
      </main>
    </>
  )
}
