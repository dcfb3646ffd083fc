// Shows a widget of Jupyter in the frame of untrusted output. The page loads it with /sandbox/frame.
import style from 'style'
import * as base from '@jupyter-widgets/base'
import { Manager } from './manager'
import { LabPanel } from './panel'

interface Place { root: HTMLElement; port: MessagePort; id: string; render: Manager['render']; load: Manager['load'] }

export async function show({ root, port, id, render, load }: Place): Promise<void> {
  document.head.append(Object.assign(document.createElement('style'), { textContent: style }))
  const manager = new Manager(port, render, load)
  const model = await manager.get_model(id)
  new LabPanel(root).add((await manager.create_view(model as never)) as never)
}

/** The other file of widgets uses the same classes. */
export { base }
