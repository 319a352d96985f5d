import {
  fullViews,
  listViews as sharedListViews,
  type ImportSummary,
  type NamedImport,
} from '../../../shared/processes/import-views.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { ImportSummaryView, ImportView } from './schemas.ts'

/** Import documents as replies. The compiler checks the shared views against the schemas that describe them. */

export async function fullView(
  { database, secrets }: ControlPlane,
  { document, names }: Pick<NamedImport, 'document'> & Partial<NamedImport>,
): Promise<ImportView> {
  const [view] = await fullViews(database.collections, [document], secrets, names)
  if (view === undefined) throw new Error('an import has no view')
  return view
}

export const listViews = (
  { database, secrets }: ControlPlane,
  documents: ImportSummary[],
): Promise<ImportSummaryView[]> => sharedListViews(database.collections, documents, secrets)
