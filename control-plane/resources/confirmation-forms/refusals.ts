import { notFound } from '../../api/refusal.ts'

export const noConfirmationForm = notFound('confirmation form')
