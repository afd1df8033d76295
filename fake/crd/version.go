package crd

import (
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/volsim/volsim/fake"
)

// version is a version of a definition.
type version struct {
	name            string
	kind            string
	group           string
	schema          *schema.Structural         // nil: none
	validator       validation.SchemaValidator // of whole objects
	statusValidator validation.SchemaValidator // of statuses; nil: none
	rules           func() *cel.Validator      // compiled at first use; returns nil if there are none
	status          bool
	scale           *fake.ScalePaths
	columns         []fake.Column
	fields          map[string]func(*fake.CustomObject) string
	openapi         *spec.Schema
}

// versionsOf reads the versions of a valid definition.
func versionsOf(crd *apiextensionsv1.CustomResourceDefinition) map[string]*version {
	all := make(map[string]*version, len(crd.Spec.Versions))
	for i := range crd.Spec.Versions {
		v, err := newVersion(crd, &crd.Spec.Versions[i])
		if err != nil {
			panic(fmt.Sprintf("crd: schema of validated definition %q: %v", crd.Name, err))
		}
		all[v.name] = v
	}
	return all
}

func newVersion(
	crd *apiextensionsv1.CustomResourceDefinition, of *apiextensionsv1.CustomResourceDefinitionVersion,
) (*version, error) {
	v := &version{
		name: of.Name, group: crd.Spec.Group, kind: crd.Status.AcceptedNames.Kind,
		columns: columnsOf(of), fields: fieldsOf(of),
	}
	var props *apiextensions.JSONSchemaProps
	if of.Schema != nil && of.Schema.OpenAPIV3Schema != nil {
		in := &apiextensions.CustomResourceValidation{}
		if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(of.Schema, in, nil); err != nil {
			return nil, err
		}
		props = in.OpenAPIV3Schema
	}
	if err := v.readSchema(props); err != nil {
		return nil, err
	}
	v.rules = sync.OnceValue(func() *cel.Validator { return cel.NewValidator(v.schema, true, celconfig.PerCallLimit) })
	v.openapi = openAPIOf(v, of.SelectableFields)
	return v, v.readSubresources(of.Subresources, props)
}

func (v *version) readSchema(props *apiextensions.JSONSchemaProps) error {
	_, validated, err := validation.NewSchemaValidator(props)
	if err != nil {
		return err
	}
	v.validator = schemaValidator{validated}
	if props == nil {
		return nil
	}
	s, err := schema.NewStructural(props)
	if err != nil {
		return err
	}
	v.schema = s.DeepCopy() // it shares its defaults with props
	return defaulting.PruneDefaults(v.schema)
}

func (v *version) readSubresources(
	sub *apiextensionsv1.CustomResourceSubresources, props *apiextensions.JSONSchemaProps,
) error {
	if sub == nil {
		return nil
	}
	if s := sub.Scale; s != nil {
		v.scale = &fake.ScalePaths{SpecReplicas: s.SpecReplicasPath, StatusReplicas: s.StatusReplicasPath}
		if s.LabelSelectorPath != nil {
			v.scale.LabelSelector = *s.LabelSelectorPath
		}
	}
	v.status = sub.Status != nil
	if !v.status || props == nil {
		return nil
	}
	status, ok := props.Properties["status"]
	if !ok {
		return nil
	}
	_, validated, err := validation.NewSchemaValidator(&status)
	v.statusValidator = schemaValidator{validated}
	return err
}
