package openapi_test

import (
	"encoding/json"
	"fmt"
	"log"
	"time"

	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/openapi"
	"github.com/volsim/volsim/sim"
)

// The document of one group version, as kubectl explain reads it.
func Example() {
	server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
	text, exists := openapi.New(server.Resources()).V3("apis/storage.k8s.io/v1")
	var document spec3.OpenAPI
	if err := json.Unmarshal(text, &document); !exists || err != nil {
		log.Fatal(exists, err)
	}
	class := document.Components.Schemas["io.k8s.api.storage.v1.StorageClass"]
	fmt.Println(class.Required, class.Properties["provisioner"].Description)
	// Output:
	// [provisioner] provisioner indicates the type of the provisioner.
}
