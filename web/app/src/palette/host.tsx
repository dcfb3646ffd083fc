import type { ComponentProps, ComponentType } from 'preact'
import { useState } from 'preact/hooks'
import type { Sandbox } from '@sandgate/client/base'
import { t } from '../language/texts'
import { route } from '../router'
import { client, may } from '../server'
import { paletteOpen } from '../ui/palette'
import { failed } from '../ui/toast'
import { Palette } from './palette'

type Viewer = typeof import('../notebook/file/viewer').FileViewer

/** Shows the palette, and the file that was chosen in it. */
export function PaletteHost() {
  const [file, setFile] = useState<{ View: ComponentType<ComponentProps<Viewer>>; session: Sandbox; path: string }>()
  const open = (path: string) => {
    const { session } = route.peek()
    void Promise.all([import('../notebook/file/viewer'), client.peek()!.getSandbox(session)])
      .then(([{ FileViewer: View }, s]) => setFile({ View, session: s, path }), (e: unknown) => failed(t('The file was not opened'), e))
  }
  return (
    <>
      {paletteOpen.value && <Palette open={open} close={() => (paletteOpen.value = false)} />}
      {file && <file.View session={file.session} path={file.path} readOnly={!may('sessions:write')} written={() => {}} onClose={() => setFile(undefined)} />}
    </>
  )
}
