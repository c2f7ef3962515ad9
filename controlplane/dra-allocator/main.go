// Answers of k8s.io/dynamic-resource-allocation/structured, one line of JSON for each line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

type question struct {
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	// Claims that have devices, and claims that need some.
	Held   []*resourceapi.ResourceClaim `json:"held"`
	Claims []*resourceapi.ResourceClaim `json:"claims"`
	Node   *v1.Node                     `json:"node"`
}

type answer struct {
	Results  []resourceapi.AllocationResult `json:"results,omitempty"`
	Found    bool                           `json:"found"`
	Error    string                         `json:"error,omitempty"`
	NodeOnly bool                           `json:"nodeOnly,omitempty"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return c, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("deviceclass.resource.k8s.io %q not found", name)
}

// As in the plugin DynamicResources of kube-scheduler.
func allocated(claims []*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if ptr.Deref(result.AdminAccess, false) {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if result.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			if result.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return state
}

func asked(q question, cache *cel.Cache) (a answer) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	features := structured.Features{
		AdminAccess:            true,
		PrioritizedList:        true,
		PartitionableDevices:   true,
		DeviceTaints:           true,
		DeviceBindingAndStatus: true,
		ConsumableCapacity:     true,
	}
	allocator, err := structured.NewAllocator(ctx, features, allocated(q.Held), classes(q.Classes), q.Slices, cache)
	if err != nil {
		panic(err)
	}
	results, err := allocator.Allocate(ctx, q.Node, q.Claims)
	if err != nil {
		return answer{Error: err.Error(), NodeOnly: errors.Is(err, structured.ErrFailedAllocationOnNode)}
	}
	return answer{Results: results, Found: results != nil}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	cache := cel.NewCache(200, cel.Features{EnableConsumableCapacity: true})
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		if err := out.Encode(asked(q, cache)); err != nil {
			panic(err)
		}
	}
}
