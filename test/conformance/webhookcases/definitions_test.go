package webhookcases

import "testing/fstest"

// definitions has the custom resource of the cases.
var definitions = fstest.MapFS{"crd.yaml": {Data: []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crd.custom.resource}
spec:
  group: custom.resource
  scope: Namespaced
  names: {plural: crd, singular: crd, kind: TestCRD, listKind: TestCRDList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)}}
