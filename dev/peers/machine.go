package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

func thisMachine() machine {
	return machine{
		Go:         runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
		Processor:  processorOf(readOr("/proc/cpuinfo", "")),
		Processors: runtime.NumCPU(),
		Modules:    peerVersions(),
	}
}

// processorOf is the model's name in the text of Linux about its processors.
func processorOf(info string) string {
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func readOr(name, otherwise string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return otherwise
	}
	return string(text)
}

// peerVersions are those that this program was built with; none where the build does not say.
func peerVersions() map[string]string {
	peers := []string{
		"github.com/afex/hystrix-go", "github.com/eapache/go-resiliency", "github.com/failsafe-go/failsafe-go",
		"github.com/sony/gobreaker/v2", "golang.org/x/time",
	}
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if slices.Contains(peers, m.Path) {
				versions[m.Path] = m.Version
			}
		}
	}
	return versions
}
