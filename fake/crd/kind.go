package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/volsim/volsim/fake"
)

// kindOf returns the resource that a definition defines.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver crdHandler.getOrCreateServingInfoFor.
func (r *registry) kindOf(crd *apiextensionsv1.CustomResourceDefinition, versions map[string]*version) fake.CustomKind {
	names := crd.Status.AcceptedNames
	k := fake.CustomKind{
		Group: crd.Spec.Group, Resource: names.Plural, Singular: names.Singular, Kind: names.Kind,
		ListKind:   names.ListKind,
		ShortNames: names.ShortNames, Categories: names.Categories,
		Namespaced:  crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Terminating: isTrue(crd, apiextensionsv1.Terminating),
		Status:      true,
		Scale:       func(v string) *fake.ScalePaths { return versions[v].scale },
		Fields:      func(v string) map[string]func(*fake.CustomObject) string { return versions[v].fields },
		Columns:     func(v string) []fake.Column { return versions[v].columns },
		Schema:      func(v string) *spec.Schema { return versions[v].openapi },
		Types:       typesOf(versions),
		Deprecated:  map[string]string{},
		Webhook:     r.webhooks.converterOf(crd, versions),
	}
	for _, v := range crd.Spec.Versions {
		if v.Served {
			k.Versions = append(k.Versions, v.Name)
		}
		if v.Storage {
			k.Storage = v.Name
		}
		if v.Deprecated {
			k.Deprecated[v.Name] = deprecation(crd, &v)
		}
		if !versions[v.Name].status {
			k.VersionsWithoutStatus = append(k.VersionsWithoutStatus, v.Name)
		}
	}
	slices.SortFunc(k.Versions, func(a, b string) int { return -utilversion.CompareKubeAwareVersionStrings(a, b) })
	at := func(obj *fake.CustomObject) *version {
		return versions[obj.APIVersion[strings.LastIndex(obj.APIVersion, "/")+1:]]
	}
	k.Default = func(obj *fake.CustomObject) error { return at(obj).decode(obj) }
	k.DefaultApplied = func(obj *fake.CustomObject) { defaulting.Default(obj.Content, at(obj).schema) }
	k.Decode = func(obj *fake.CustomObject) { at(obj).load(obj) }
	k.Convert = func(obj *fake.CustomObject, to string) { versions[to].prune(obj.Content) }
	k.Validate = func(obj, old *fake.CustomObject) field.ErrorList { return at(obj).validate(obj, old) }
	k.ValidateStatus = func(obj, old *fake.CustomObject) field.ErrorList { return at(obj).validateStatus(obj, old) }
	k.UnknownFields = func(obj *fake.CustomObject) []string { return at(obj).unknown(obj) }
	k.Warnings = finalizerWarnings
	return k
}

// deprecation returns the warning for a deprecated version.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver defaultDeprecationWarning.
func deprecation(
	crd *apiextensionsv1.CustomResourceDefinition, of *apiextensionsv1.CustomResourceDefinitionVersion,
) string {
	if of.DeprecationWarning != nil {
		return *of.DeprecationWarning
	}
	best := ""
	for _, v := range crd.Spec.Versions {
		newer := utilversion.CompareKubeAwareVersionStrings(of.Name, v.Name) < 0
		if v.Served && !v.Deprecated && newer && (best == "" || utilversion.CompareKubeAwareVersionStrings(best,
			v.Name) < 0) {
			best = v.Name
		}
	}
	kind := crd.Spec.Names.Kind
	msg := fmt.Sprintf("%s/%s %s is deprecated", crd.Spec.Group, of.Name, kind)
	if best != "" {
		msg += fmt.Sprintf("; use %s/%s %s", crd.Spec.Group, best, kind)
	}
	return msg
}

// columnsOf returns the printer columns of a version.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor New.
func columnsOf(v *apiextensionsv1.CustomResourceDefinitionVersion) []fake.Column {
	if len(v.AdditionalPrinterColumns) == 0 {
		return []fake.Column{{
			TableColumnDefinition: metav1.TableColumnDefinition{
				Name: "Age", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
			},
			JSONPath: ".metadata.creationTimestamp",
		}}
	}
	columns := make([]fake.Column, len(v.AdditionalPrinterColumns))
	for i, c := range v.AdditionalPrinterColumns {
		if c.Description == "" {
			c.Description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		columns[i] = fake.Column{
			TableColumnDefinition: metav1.TableColumnDefinition{
				Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority,
			},
			JSONPath: c.JSONPath,
		}
	}
	return columns
}

// fieldsOf returns the selectable fields of a version.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource prepareSelectableFields.
func fieldsOf(v *apiextensionsv1.CustomResourceDefinitionVersion) map[string]func(*fake.CustomObject) string {
	fields := make(map[string]func(*fake.CustomObject) string, len(v.SelectableFields))
	for _, f := range v.SelectableFields {
		path := "{" + f.JSONPath + "}"
		fields[strings.TrimPrefix(f.JSONPath, ".")] = func(obj *fake.CustomObject) string { return valueAt(obj, path) }
	}
	return fields
}

// valueAt returns the value at a JSON path outside of the metadata, or "".
func valueAt(obj *fake.CustomObject, path string) string {
	p := jsonpath.New("selectableField") // not shared, since it is stateful
	p.AllowMissingKeys(true)
	if err := p.Parse(path); err != nil {
		return ""
	}
	found, err := p.FindResults(obj.Content)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return ""
	}
	value := found[0][0].Interface()
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
