/* Runs a fuzz target over the files of its corpus, in the ordinary tests: replay DIRECTORY. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_BYTES (1u << 20)

int main(int argc, char **argv)
{
	uint8_t *data = malloc(INPUT_BYTES);
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *entry;
	unsigned count = 0;

	if (!dir || !data) {
		fprintf(stderr, "usage: replay DIRECTORY\n");
		return 2;
	}
	while ((entry = readdir(dir))) {
		char path[4096];
		size_t size;
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		if (entry->d_name[0] == '.' || !(file = fopen(path, "rb")))
			continue;
		size = fread(data, 1, INPUT_BYTES, file);
		fclose(file);
		/* Named before it runs: the last line says which one it was. */
		printf("%s\n", entry->d_name);
		fflush(stdout);
		/* An exact copy, so that reading past its end is seen by the sanitizer. */
		uint8_t *copy = malloc(size ? size : 1);

		if (!copy)
			return 2;
		memcpy(copy, data, size);
		LLVMFuzzerTestOneInput(copy, size);
		/* And cut short in the middle. */
		LLVMFuzzerTestOneInput(copy, size / 2);
		free(copy);
		count++;
	}
	closedir(dir);
	free(data);
	printf("%u inputs\n", count);
	return count ? 0 : 1;
}
