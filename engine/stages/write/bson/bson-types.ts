/** BSON's numbers of the element types that the writer and the reader know. */
export const bsonType = {
  double: 1,
  string: 2,
  object: 3,
  array: 4,
  boolean: 8,
  date: 9,
  null: 10,
  int32: 16,
  timestamp: 17,
  int64: 18,
} as const
