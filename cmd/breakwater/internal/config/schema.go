package config

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of the file, for editors.
//
//go:embed schema.json
var Schema string
