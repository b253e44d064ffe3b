package api

import (
	_ "embed" // the document
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"
)

// pathOpenAPI is where the description of the API is.
const pathOpenAPI = "/v1/openapi.json"

// openAPISource describes the public API, in YAML, which maintainers edit.
//
//go:embed openapi.yaml
var openAPISource []byte

// openAPI answers with the description of the API, made into JSON when it is
// asked for the first time.
func openAPI() echo.HandlerFunc {
	document := sync.OnceValues(openAPIDocument)
	return func(c echo.Context) error {
		text, err := document()
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, jsonType, text)
	}
}

// openAPIDocument is the description in JSON, ended by a newline.
func openAPIDocument() ([]byte, error) {
	var v any
	if err := yaml.Unmarshal(openAPISource, &v); err != nil {
		return nil, fmt.Errorf("read the description of the API: %w", err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write the description of the API: %w", err)
	}
	return append(text, '\n'), nil
}
