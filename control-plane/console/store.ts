import { useLayoutEffect, useState } from 'preact/hooks'

/** A value that components follow. */
export interface Store<State> {
  value: State
  /** Changes the given keys, and renders who follows. */
  set: (change: Partial<State>) => void
  follow: (listener: () => void) => () => void
}

export function createStore<State>(initial: State): Store<State> {
  const listeners = new Set<() => void>()
  const store: Store<State> = {
    value: initial,
    set(change) {
      store.value = { ...store.value, ...change }
      for (const listener of listeners) listener()
    },
    follow(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
  return store
}

/** The store's value, in a component that is rendered at each change. */
export function useStore<State>(store: Store<State>): State {
  const [, render] = useState({})
  const { value } = store
  useLayoutEffect(() => {
    // It may have changed since it was rendered, before anyone followed it.
    if (store.value !== value) render({})
    return store.follow(() => render({}))
  }, [store])
  return value
}

/** A page's own store, made when the page is opened. */
export function usePageStore<State>(initial: State): Store<State> {
  const [store] = useState(() => createStore(initial))
  useStore(store)
  return store
}
