package crd_test

import "testing"

func TestDefinitionIsServedAtOnce(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	got := w.get(definitions, "", "widgets.shop.example.com")
	expect(t, `{"acceptedNames":{"categories":["all"],"kind":"Widget","listKind":"WidgetList","plural":"widgets",`+
		`"shortNames":["wg"],"singular":"widget"},"conditions":[{"lastTransitionTime":"2026-01-02T03:04:05Z",`+
		`"message":"no conflicts found","reason":"NoConflicts","status":"True","type":"NamesAccepted"},`+
		`{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"the initial names have been accepted",`+
		`"reason":"InitialNamesAccepted","status":"True","type":"Established"}],"storedVersions":["v1"]}`,
		text(t, got.Content["status"]))
	obj := w.create(widgets, "default", `{metadata: {name: a}, spec: {size: 2, junk: 1}, status: {ready: true}}`)
	expect(t, `{"spec":{"color":"red","size":2}}`, text(t, obj.Content))
	expect(t, int64(1), obj.Generation)
}
