// Answers of k8s.io/dynamic-resource-allocation/cel, one line of JSON for each line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	Expression string             `json:"expression"`
	Driver     string             `json:"driver"`
	Device     resourceapi.Device `json:"device"`
}

type answer struct {
	Compile string `json:"compile,omitempty"`
	Error   string `json:"error,omitempty"`
	Match   bool   `json:"match"`
	Cost    uint64 `json:"cost"`
}

func asked(q question) (a answer) {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	result := compiler.CompileCELExpression(q.Expression, cel.Options{DisableCostEstimation: true})
	if result.Error != nil {
		a.Compile = result.Error.Detail
		return a
	}
	match, details, err := result.DeviceMatches(context.Background(), cel.Device{
		Driver:                   q.Driver,
		AllowMultipleAllocations: q.Device.AllowMultipleAllocations,
		Attributes:               q.Device.Attributes,
		Capacity:                 q.Device.Capacity,
	})
	a.Match = match
	if details != nil && details.ActualCost() != nil {
		a.Cost = *details.ActualCost()
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		if err := out.Encode(asked(q)); err != nil {
			panic(err)
		}
	}
}
