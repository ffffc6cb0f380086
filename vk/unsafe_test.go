package vk_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// unsafeCalls take a slice of structs, whose C copy vulkan-go frees from a finalizer while the driver may still read it.
var unsafeCalls = strings.Fields(`
	CmdBlitImage CmdClearAttachments CmdClearColorImage CmdClearDepthStencilImage CmdCopyBuffer CmdCopyBufferToImage
	CmdCopyImage CmdCopyImageToBuffer CmdPipelineBarrier CmdResolveImage CmdSetScissor CmdSetViewport CmdWaitEvents
	CreateComputePipelines CreateGraphicsPipelines CreateSharedSwapchains EnumerateDeviceExtensionProperties
	EnumerateDeviceLayerProperties EnumerateInstanceExtensionProperties EnumerateInstanceLayerProperties
	FlushMappedMemoryRanges GetDisplayModeProperties GetImageSparseMemoryRequirements
	GetPhysicalDeviceDisplayPlaneProperties GetPhysicalDeviceDisplayProperties GetPhysicalDeviceQueueFamilyProperties
	GetPhysicalDeviceSparseImageFormatProperties GetPhysicalDeviceSurfaceFormats InvalidateMappedMemoryRanges
	QueueBindSparse QueueSubmit UpdateDescriptorSets`)

func TestNoGoFileMakesAnUnsafeCall(t *testing.T) {
	if len(unsafeCalls) != 32 {
		t.Fatalf("%d names, want 32", len(unsafeCalls))
	}
	importers := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		imports, calls := callsInto(t, path, string(source))
		if imports {
			importers++
		}
		for _, call := range calls {
			t.Errorf("%s; it goes through the shim", call)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if importers == 0 {
		t.Error("no file imports vulkan-go: the test looks in the wrong place")
	}
}

func TestAnUnsafeCallIsSeenUnderAnyName(t *testing.T) {
	for source, want := range map[string]int{
		`package p; import v "github.com/vulkan-go/vulkan"; var _ = v.QueueSubmit`:                            1,
		`package p; import "github.com/vulkan-go/vulkan"; func f() { vulkan.CmdCopyBuffer(); vulkan.Init() }`: 1,
		`package p; import . "github.com/vulkan-go/vulkan"; var _ = UpdateDescriptorSets`:                     1,
		`package p; import v "github.com/vulkan-go/vulkan"; var _ = v.CreateBuffer`:                           0,
		`package p; type q struct{ QueueSubmit int }; var _ = q{}.QueueSubmit`:                                0,
	} {
		if _, calls := callsInto(t, "source.go", source); len(calls) != want {
			t.Errorf("%q: %d calls found, want %d", source, len(calls), want)
		}
	}
}

// callsInto finds the unsafe names of vulkan-go that a file mentions.
func callsInto(t *testing.T, path, source string) (imports bool, calls []string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, spec := range file.Imports {
		if target, _ := strconv.Unquote(spec.Path.Value); target == "github.com/vulkan-go/vulkan" {
			name = "vulkan"
			if spec.Name != nil {
				name = spec.Name.Name
			}
		}
	}
	if name == "" {
		return false, nil
	}
	unsafe := map[string]bool{}
	for _, call := range unsafeCalls {
		unsafe[call] = true
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == name && unsafe[n.Sel.Name] {
				calls = append(calls, files.Position(n.Pos()).String()+": "+n.Sel.Name)
			}
		case *ast.Ident:
			if name == "." && unsafe[n.Name] {
				calls = append(calls, files.Position(n.Pos()).String()+": "+n.Name)
			}
		}
		return true
	})
	return true, calls
}
