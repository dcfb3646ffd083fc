// Shows a widget of Jupyter in the frame of untrusted output. The page loads it with /sandbox/frame.
import style from 'style'
import { Manager } from './manager'
import { LabPanel } from './panel'

export async function show({ root, port, id, render }: { root: HTMLElement; port: MessagePort; id: string; render: Manager['render'] }): Promise<void> {
  document.head.append(Object.assign(document.createElement('style'), { textContent: style }))
  const manager = new Manager(port, render)
  const model = await manager.get_model(id)
  new LabPanel(root).add((await manager.create_view(model as never)) as never)
}
