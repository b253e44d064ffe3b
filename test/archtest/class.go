package archtest

import (
	"go/ast"
	"slices"
)

// makers are what serves requests or leads them to their handlers.
var makers = map[string][]string{
	"net/http": {"Server", "ServeMux", "NewServeMux", "DefaultServeMux", "Handle", "HandleFunc",
		"ListenAndServe", "Serve"},
	"github.com/labstack/echo/v4":                     {"New"},
	"github.com/trivet-ha/trivet/internal/httpserver": {"New"},
}

// classed are the files that serve routes and give each a class. Their golden files
// list the classes: testdata/classes.txt of api, app and
// app/admin.
var classed = []string{
	"api/front.go", "api/web/page.go", "cluster/port.go", "cluster/routes.go", // API, page, peers' port
	"app/start.go", "app/haconfig.go", "lease/elector/endpoint.go", // servers, whose handlers admit
	"internal/httpserver/server.go",
}

// checkClass finds servers and routers elsewhere: a route that they have would be asked
// without a bound on what its requests cost.
func checkClass(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if file.Test() || harness(file.Package()) || slices.Contains(classed, file.Path) {
			continue
		}
		imports := file.Imports()
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			expr, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if target, name, _ := selected(imports, expr); slices.Contains(makers[target], name) {
				report.Addf(file, expr.Pos(), "%s serves routes that have no class: see %v", name, classed)
			}
			return true
		})
	}
}
