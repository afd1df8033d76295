package crd_test

import (
	"fmt"
	"strings"
	"testing"
)

// Defaults on each of many levels are refused, since each costs as much as all below it.
func TestCostlyDefaults(t *testing.T) {
	definition := func(levels int) string {
		return `{"metadata":{"name":"costs.shop.example.com"},"spec":{"group":"shop.example.com","scope":"Namespaced",` +
			`"names":{"plural":"costs","kind":"Cost"},"versions":[{"name":"v1","served":true,"storage":true,` +
			`"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":` +
			strings.Repeat(`{"type":"object","default":{},"properties":{"a":`, levels) + `{"type":"integer"}` +
			strings.Repeat(`}}`, levels) + `}}}}]}}`
	}
	w := newWorld(t)
	for levels, want := range map[int]string{
		100: "no error",
		3300: `CustomResourceDefinition.apiextensions.k8s.io "costs.shop.example.com" is invalid: ` +
			`spec.validation.openAPIV3Schema: Forbidden: the schemas of its defaults have 5449950 fields in total, more than 1000000`,
	} {
		t.Run(fmt.Sprint(levels), func(t *testing.T) {
			_, err := w.try(definitions, "", definition(levels))
			expectError(t, want, err)
		})
	}
}
