package blobs

import _ "embed"

// DictionarySince is the log version from which on every member knows the dictionary.
const DictionarySince = 2

// dictionaryID is in every frame that needs the dictionary, so that a frame without it is
// read as before. It is of the range that zstd leaves to private use (RFC 8878, 5).
const dictionaryID = 40001

// dictionary is a text that a document may refer to as if it stood before the document:
// inventories as ironic-python-agent sends them, with names of several makers. It halves
// an inventory's size once more. It is part of the log: a document that was packed with it
// is lost without it, so that it never changes. Another one gets another ID, and a log
// version of its own.
//
//go:embed inventory.dict
var dictionary []byte
