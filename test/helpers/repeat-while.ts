/**
 * Runs a scenario, and again while its result may be due to a busy machine. Resolves to the first other result, or to
 * that of the third run.
 */
export async function repeatWhile<T>(
  run: (attempt: number) => Promise<T>,
  isDoubtful: (result: T) => boolean,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const result = await run(attempt)
    if (attempt === 3 || !isDoubtful(result)) return result
  }
}
