// Patches -> unit descriptors in C++, by OpenVINO.
//
//   hynet export --model default --to m.openvino
//   cmake -S . -B build -DOpenVINO_DIR=$(python -c "import openvino; print(openvino.__path__[0])")/cmake
//   cmake --build build
//   build/describe m.openvino/model.xml patches.raw descriptors.raw
//
// patches.raw: N patches of 32 x 32 bytes, as hynet.images.patches.cut gives them (patches.tofile("patches.raw")).
// descriptors.raw: N rows of 128 floats (numpy.fromfile("descriptors.raw", "float32").reshape(-1, 128)).

#include <openvino/openvino.hpp>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) try {
    if (argc != 4) {
        std::cerr << "usage: describe model.xml patches.raw descriptors.raw\n";
        return 2;
    }
    ov::Core core;
    auto model = core.compile_model(argv[1], "CPU");
    const auto side = model.input().get_partial_shape()[2].get_length();
    const auto bytes = static_cast<size_t>(side * side);

    std::ifstream in(argv[2], std::ios::binary);
    std::vector<uint8_t> patches((std::istreambuf_iterator<char>(in)), {});
    if (!in.is_open() || patches.empty() || patches.size() % bytes != 0) {
        std::cerr << argv[2] << " should hold patches of " << side << " x " << side << " bytes each\n";
        return 2;
    }
    const size_t count = patches.size() / bytes;

    auto request = model.create_infer_request();
    ov::Shape shape{count, static_cast<size_t>(side), static_cast<size_t>(side)};
    request.set_input_tensor(ov::Tensor(ov::element::u8, shape, patches.data()));
    request.infer();
    const auto descriptors = request.get_output_tensor();

    std::ofstream out(argv[3], std::ios::binary);
    out.write(static_cast<const char*>(descriptors.data()), static_cast<std::streamsize>(descriptors.get_byte_size()));
    if (!out.flush()) {
        std::cerr << "cannot write " << argv[3] << "\n";
        return 2;
    }
    std::cout << count << " patches, " << descriptors.get_shape()[1] << " numbers each\n";
    return 0;
} catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
}
