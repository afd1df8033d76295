package facts

import (
	"context"
	_ "embed"
	"fmt"
)

//go:embed custom.txt
var customText string

// Install creates the definitions of the custom resources that some of the facts use.
func Install(ctx context.Context, client Client) error {
	facts, err := Parse("custom.txt", customText)
	if err != nil {
		return err
	}
	r := &run{client: client, fact: facts[0], vars: map[string]any{}, streams: map[string]Stream{}}
	defer r.close()
	if err := r.steps(ctx); err != nil {
		return fmt.Errorf("install custom resources: %w", err)
	}
	return nil
}
