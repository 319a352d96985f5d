import type { z } from 'zod'
import * as shared from '../../../shared/store/import-views.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { importListView, importView } from './schemas.ts'

/** Import documents as replies: the shared views, held against the schemas that describe them. */

type FullView = z.infer<typeof importView>

export const fullViews = (
  { database, secrets }: Pick<ControlPlane, 'database' | 'secrets'>,
  documents: ImportDocument[],
): Promise<FullView[]> => shared.fullViews(database.collections, documents, secrets)

export const fullView = async (deps: ControlPlane, document: ImportDocument): Promise<FullView> =>
  (await fullViews(deps, [document]))[0]!

export const listViews = (
  { database, secrets }: ControlPlane,
  documents: shared.ImportSummary[],
): Promise<z.infer<typeof importListView>[]> => shared.listViews(database.collections, documents, secrets)
