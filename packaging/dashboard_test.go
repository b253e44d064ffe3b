package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const dashboardFile = "monitoring/trivet-grafana.json"

// dashboard is what the test looks at of Grafana's model.
type dashboard struct {
	Title      string `json:"title"`
	UID        string `json:"uid"`
	Schema     int    `json:"schemaVersion"`
	Templating struct {
		List []struct {
			Name string `json:"name"`
			Type string `json:"type"`
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []panelTarget `json:"list"`
	} `json:"annotations"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID    int    `json:"id"`
	Type  string `json:"type"`
	Title string `json:"title"`
	Grid  struct {
		H, W, X, Y int
	} `json:"gridPos"`
	Targets []panelTarget `json:"targets"`
}

type panelTarget struct {
	RefID      string `json:"refId"`
	Expr       string `json:"expr"`
	Datasource struct {
		UID string `json:"uid"`
	} `json:"datasource"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

// asked calls ask with each target, and with the title of its panel.
func (d dashboard) asked(ask func(where string, target panelTarget)) {
	for _, a := range d.Annotations.List {
		ask("annotation", a)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			ask(p.Title, target)
		}
	}
}

// promQL is the expression with a value for each of Grafana's variables.
func (t panelTarget) promQL() string {
	return strings.NewReplacer("$job", "trivet", "$__rate_interval", "1m").Replace(t.Expr)
}

// TestDashboard wants what Grafana reads without a word and then shows nothing:
// panels of their own place, data sources that are chosen, and expressions that
// ask for figures that there are.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.Title != "Trivet" || d.UID == "" || d.Schema < 36 || len(d.Panels) < 30 {
		t.Errorf("%q %q, schema %d, %d panels", d.Title, d.UID, d.Schema, len(d.Panels))
	}
	if v := d.Templating.List; len(v) != 2 || v[0].Name != "datasource" || v[0].Type != "datasource" ||
		v[1].Name != "job" {
		t.Errorf("variables %+v", v)
	}
	figures := readFigures(t)
	d.asked(func(where string, target panelTarget) {
		if target.Datasource.UID != "${datasource}" {
			t.Errorf("%s: its data source is %q, not the one that is chosen", where, target.Datasource.UID)
		}
		if !strings.Contains(target.Expr, `job="$job"`) {
			t.Errorf("%s: it mixes the clusters of all jobs: %s", where, target.Expr)
		}
		figures.check(t, where, target.promQL())
	})
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || (p.Type != "row") != (len(p.Targets) > 0) {
			t.Errorf("panel %d %q has the number of another, or %d targets", p.ID, p.Title, len(p.Targets))
		}
		ids[p.ID] = true
		for x := p.Grid.X; x < p.Grid.X+p.Grid.W; x++ {
			for y := p.Grid.Y; y < p.Grid.Y+p.Grid.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x > 23 {
					t.Fatalf("panel %q lies on %q, or beyond the page", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
