import { t } from '../../language/texts'
import { Icon, type IconName } from '../../ui/icon'
import { Menu, MenuItem } from '../../ui/menu'
import type { Desk } from '../desk'
import { dragTab, dropOnTabs } from './drag'
import { makeNotebook, openPreview, openTerminal } from './open'
import { keyOf, stepped, type Dock, type DockGroup, type DockTab } from './state'

interface Props {
  desk: Desk
  dock: Dock
  group: DockGroup
  index: number
  /** There is one group, which has the tabs of all. */
  phone: boolean
  /** The group at the corner has the buttons for all groups. */
  corner: boolean
  style: Record<string, string>
  titles: Record<string, string>
  close: (t: DockTab) => void
}

const icons: Record<DockTab['kind'], IconName> = { file: 'file', notebook: 'notebook', terminal: 'terminal', preview: 'globe' }

/** The id of an element of a tab. */
export const idOf = (part: 'tab' | 'part', t: DockTab): string => `dock-${part}-${encodeURIComponent(keyOf(t))}`

/** The tabs of a group, and buttons for them. */
export function Tabs({ desk, dock, group, index, phone, corner, style, titles, close }: Props) {
  const { tabs, at } = group
  const { groups, below, stacked } = dock.state.value
  const { readOnly } = desk.main.notebook
  const shown = tabs[at]!
  const key = keyOf(shown)
  const name = (tab: DockTab) => {
    switch (tab.kind) {
      case 'terminal': return titles[tab.id] || t('Terminal')
      case 'preview': return t('Port {port}', { port: tab.port })
      default: return tab.path.split('/').pop()!
    }
  }
  const choose = (tab: DockTab) => {
    dock.show(keyOf(tab))
    dock.wanted.value = keyOf(tab)
  }
  const move = (by: 1 | -1, over: boolean) => {
    if (dock.move(key, stepped(dock.state.peek(), key, by, over))) dock.wanted.value = key
  }
  const press = (e: KeyboardEvent) => {
    const by = ({ ArrowRight: 1, ArrowLeft: -1 } as const)[e.key]
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[e.key]
    if (e.key === 'Delete') close(shown)
    if (e.key === 'Enter' || e.key === ' ') {
      e.preventDefault()
      dock.focused.value = key
    }
    if (to === undefined) return
    e.preventDefault()
    if (by && e.shiftKey) return phone ? undefined : move(by, false)
    choose(tabs[(to + tabs.length) % tabs.length]!)
  }
  const [next, previous] = ([1, -1] as const).map((by) => stepped(dock.state.value, key, by, true))
  return (
    <header class="row" style={style}>
      <div class="tabs grow" role="tablist" aria-label={groups.length > 1 && !phone ? t('Tabs of group {n}', { n: index + 1 }) : t('Tabs beside the notebook')} onKeyDown={press} {...dropOnTabs(dock, index)}>
        {tabs.map((tab, i) => {
          const open = tab.kind === 'notebook' ? desk.others.value.find((n) => n.path === tab.path) : undefined
          return (
            // No button: Firefox drags none.
            <div key={keyOf(tab)} role="tab" class="tab" id={idOf('tab', tab)} data-key={keyOf(tab)} aria-selected={i === at} aria-controls={idOf('part', tab)} tabIndex={i === at ? 0 : -1}
              title={tab.kind === 'file' || tab.kind === 'notebook' ? tab.path : undefined} onClick={() => { dock.show(keyOf(tab)); dock.focused.value = keyOf(tab) }}
              onAuxClick={(e) => { if (e.button === 1) close(tab) }} {...(phone ? {} : dragTab(tab))}>
              <Icon name={icons[tab.kind]} /><span class="ellipsis">{name(tab)}</span>{open?.kernels.busy.value && <i class="dot" />}
            </div>
          )
        })}
      </div>
      {!readOnly && (
        <Menu label={t('Open beside the notebook')} button={<Icon name="add" />}>
          {() => (
            <>
              <MenuItem onClick={() => void openTerminal(desk)}>{t('New terminal')}</MenuItem>
              <MenuItem onClick={() => void makeNotebook(desk)}>{t('New notebook…')}</MenuItem>
              <MenuItem onClick={() => void openPreview(desk)}>{t('Preview a port…')}</MenuItem>
            </>
          )}
        </Menu>
      )}
      {!phone && (groups.length > 1 || tabs.length > 1) && (
        <Menu label={t('Arrange {name}', { name: name(shown) })} button={<Icon name="more" />}>
          {() => (
            <>
              {previous && <MenuItem onClick={() => move(-1, true)}>{previous.split ? t('Move to a new group before') : t('Move to the previous group')}</MenuItem>}
              {next && <MenuItem onClick={() => move(1, true)}>{next.split ? t('Move to a new group') : t('Move to the next group')}</MenuItem>}
              {tabs.length > 1 && <MenuItem disabled={at === 0} onClick={() => move(-1, false)} keys="⇧←">{t('Move back')}</MenuItem>}
              {tabs.length > 1 && <MenuItem disabled={at === tabs.length - 1} onClick={() => move(1, false)} keys="⇧→">{t('Move forward')}</MenuItem>}
              {groups.length > 1 && <><hr /><MenuItem onClick={() => dock.set({ stacked: !stacked })}>{stacked ? t('Put the groups side by side') : t('Put the groups one below the other')}</MenuItem></>}
            </>
          )}
        </Menu>
      )}
      {corner && <button type="button" class="button icon quiet wide" aria-label={below ? t('Move to the side') : t('Move below')} title={below ? t('Move to the side') : t('Move below')} onClick={() => dock.set({ below: !below, stacked: below })}><Icon name={below ? 'beside' : 'below'} /></button>}
      {corner && <button type="button" class="button icon quiet" aria-label={t('Hide')} title={t('Hide')} onClick={() => { dock.set({ hidden: true }); desk.enter(desk.main) }}><Icon name={below ? 'down' : 'forward'} /></button>}
      <button type="button" class="button icon quiet" aria-label={t('Close {name}', { name: name(shown) })} title={t('Close this tab')} onClick={() => close(shown)}><Icon name="close" /></button>
    </header>
  )
}
